"""rabbitmq.conf: known keys become ours, the others are named."""

import pytest

from amqpd.rabbitmq_conf import LineInvalid, RabbitmqConf, read_rabbitmq_conf

ENVIRONMENT = {"SECRET": "s3cret"}


def settings(conf: RabbitmqConf) -> dict[str, str]:
    return {entry.key: entry.text for entry in conf.entries}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("heartbeat = 30", {"heartbeat_s": "30"}),
        ("handshake_timeout = 5000", {"handshake_timeout_ms": "5000"}),
        ("  frame_max=8192  # bytes", {"frame_max": "8192"}),
        ("default_pass = $(SECRET)", {"default_pass": "s3cret"}),
        ("default_pass = a$(SECRET)b", {"default_pass": "as3cretb"}),
        ("default_pass = '$(SECRET) # x'", {"default_pass": "$(SECRET) # x"}),
        ("load_definitions = /d.json", {"load_definitions": "/d.json"}),
        ("log.console.level = notice", {"log.level": "info"}),
        ("log.console.formatter = json", {"log.format": "json"}),
        ("log.console.formatter = plaintext", {"log.format": "text"}),
        ("cluster_name = blue", {"cluster_name": "blue"}),
        ("prometheus.tcp.port = 15693", {"prometheus.port": "15693"}),
        ("vm_memory_high_watermark.relative = 1", {"memory.high_watermark": "1.0"}),
        ("vm_memory_high_watermark.relative = 0.4", {"memory.high_watermark": "0.4"}),
        (
            "vm_memory_high_watermark.absolute = 2GB",
            {"memory.high_watermark": "2GB"},
        ),
        ("connection_max = 100", {"connection_max": "100"}),
        ("connection_max = infinity", {}),
        ("channel_max_per_node = 7", {"channel_max_per_node": "7"}),
        ("consumer_max_per_channel = 3", {"consumer_max_per_channel": "3"}),
        ("vhost_max = 4", {"vhost_max": "4"}),
        ("cluster_queue_limit = 5", {"cluster_queue_limit": "5"}),
        ("cluster_exchange_limit = 6", {"cluster_exchange_limit": "6"}),
        (
            "quorum_queue.property_equivalence.relaxed_checks_on_redeclaration = true",
            {"compat.relaxed_quorum_checks": "true"},
        ),
        (
            (
                "management.cors.allow_origins.1 = https://a.example\n"
                "management.cors.allow_origins.2 = *\nmanagement.cors.max_age = 60"
            ),
            {
                "http.cors_allow_origins": "https://a.example,*",
                "http.cors_max_age_s": "60",
            },
        ),
        ("disk_free_limit.absolute = 1GiB", {"disk.free_limit": "1GiB"}),
        ("disk_free_limit.relative = 2", {"disk.free_limit": "2.0"}),
        ("total_memory_available_override_value = 1G", {"memory.available": "1G"}),
        ("ssl_options.cacertfile = /ca.pem", {"tls.ca": "/ca.pem"}),
        ("ssl_options.certfile = /c.pem", {"tls.cert": "/c.pem"}),
        ("ssl_options.keyfile = /c.key", {"tls.key": "/c.key"}),
        ("ssl_options.password = $(SECRET)", {"tls.key_password": "s3cret"}),
        ("ssl_options.verify = verify_peer", {"tls.verify": "peer"}),
        ("ssl_options.verify = verify_none", {"tls.verify": "none"}),
        (
            "ssl_options.fail_if_no_peer_cert = true",
            {"tls.require_client_cert": "true"},
        ),
        (
            "ssl_options.versions.1 = tlsv1.3\nssl_options.versions.2 = tlsv1.2",
            {"tls.min_version": "1.2", "tls.max_version": "1.3"},
        ),
        (
            "ssl_options.versions.1 = tlsv1.2",
            {"tls.min_version": "1.2", "tls.max_version": "1.2"},
        ),
        (
            "ssl_options.ciphers.1 = A-SHA\nssl_options.ciphers.2 = B-SHA",
            {"tls.ciphers": "A-SHA,B-SHA"},
        ),
        ("ssl_cert_login_from = common_name", {"tls.login_from": "common_name"}),
        ("ssl_cert_login_san_type = email", {"tls.login_san_type": "email"}),
        ("ssl_cert_login_san_index = 1", {"tls.login_san_index": "1"}),
        (
            "auth_mechanisms.1 = EXTERNAL\nauth_mechanisms.2 = PLAIN",
            {"auth_mechanisms": "EXTERNAL,PLAIN"},
        ),
    ],
)
def test_a_known_key_becomes_our_setting(line: str, expected: dict[str, str]) -> None:
    conf = read_rabbitmq_conf(line, ENVIRONMENT)
    assert settings(conf) == expected
    assert conf.unknown == []


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("listeners.tcp.default = 5673", "0.0.0.0,::", "5673"),
        ("listeners.tcp.1 = 127.0.0.1:5673", "127.0.0.1", "5673"),
        (
            "listeners.tcp.1 = 127.0.0.1:5673\nlisteners.tcp.2 = [::1]:5673",
            "127.0.0.1,::1",
            "5673",
        ),
        ("listeners.tcp.1 = ::1:5673", "::1", "5673"),
        ("listeners.tcp.1 = 5673\nlisteners.tcp.default = 5673", "0.0.0.0,::", "5673"),
    ],
)
def test_a_listener_is_an_address_and_a_port(text: str, host: str, port: str) -> None:
    conf = read_rabbitmq_conf(text, {})
    assert settings(conf) == {"host": host, "port": port}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("listeners.ssl.default = 5671", {"host": "0.0.0.0,::", "tls.port": "5671"}),
        (
            "listeners.tcp.default = 5672\nlisteners.ssl.default = 5671",
            {"host": "0.0.0.0,::", "port": "5672", "tls.port": "5671"},
        ),
        (
            "listeners.tcp = none\nlisteners.ssl.1 = 10.0.0.1:5671",
            {"host": "10.0.0.1", "port": "none", "tls.port": "5671"},
        ),
        ("listeners.ssl = none", {"tls.port": "0"}),
    ],
)
def test_a_listener_with_tls_has_its_port_on_the_same_addresses(
    text: str, expected: dict[str, str]
) -> None:
    assert settings(read_rabbitmq_conf(text, {})) == expected


def test_listeners_on_other_addresses_with_tls_are_refused() -> None:
    text = "listeners.tcp.1 = 127.0.0.1:5672\nlisteners.ssl.default = 5671"
    with pytest.raises(LineInvalid, match=r"is on 0\.0\.0\.0, ::; amqpd") as caught:
        read_rabbitmq_conf(text, {})
    assert (caught.value.key, caught.value.line) == ("listeners.ssl.default", 2)


@pytest.mark.parametrize(
    "line",
    [
        "ssl_options.depth = 2",
        "ssl_options.versions.1 = tlsv1.1",
        "ssl_options.ciphers.1 = TLS_AES_256_GCM_SHA384",
        "ssl_options.honor_cipher_order = false",
        "auth_mechanisms.1 = ANONYMOUS",
    ],
)
def test_what_is_unknown_of_tls_and_logins_is_given_back(line: str) -> None:
    conf = read_rabbitmq_conf(line, {})
    assert conf.entries == []
    assert conf.unknown == [(line.partition(" ")[0], 1)]


def test_listeners_on_two_ports_are_refused() -> None:
    text = "listeners.tcp.1 = 5673\nlisteners.tcp.2 = 5674"
    with pytest.raises(LineInvalid, match="is on port 5674") as caught:
        read_rabbitmq_conf(text, {})
    assert (caught.value.key, caught.value.line) == ("listeners.tcp.2", 2)


@pytest.mark.parametrize(
    ("text", "users"),
    [
        ("loopback_users.guest = false", ""),
        ("loopback_users = none", ""),
        ("loopback_users.ann = true", "guest,ann"),
        ("loopback_users.guest = true", "guest"),
        ("loopback_users.ann = false", "guest"),
    ],
)
def test_loopback_users_are_guest_and_those_that_are_added(
    text: str, users: str
) -> None:
    assert settings(read_rabbitmq_conf(text, {})) == {"loopback_users": users}


def test_unknown_keys_are_given_back_with_their_lines() -> None:
    text = "# limits\n\nmqtt.prefetch = 10\nheartbeat = 5\nx.y = 1"
    conf = read_rabbitmq_conf(text, {})
    assert conf.unknown == [("mqtt.prefetch", 3), ("x.y", 5)]


def test_a_key_that_asks_for_what_is_so_anyway_is_not_unknown() -> None:
    text = "tcp_listen_options.nodelay = true\nlog.console = true"
    assert read_rabbitmq_conf(text, {}).unknown == []


def test_a_key_that_asks_for_the_opposite_of_what_is_so_is_unknown() -> None:
    text = "tcp_listen_options.nodelay = false"
    assert read_rabbitmq_conf(text, {}).unknown == [("tcp_listen_options.nodelay", 1)]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("heartbeat", "is not of the form key = value"),
        ("default_pass = $(NOWHERE)", "names the variable NOWHERE, which is not set"),
        ("log.console.level = loud", "must be one of debug"),
        ("loopback_users = all", "must be none"),
        ("ssl_options.verify = maybe", "must be one of verify_peer, verify_none"),
        ("loopback_users.guest = maybe", "must be one of true, false"),
    ],
)
def test_a_line_that_cannot_be_right_is_refused(line: str, complaint: str) -> None:
    with pytest.raises(LineInvalid, match=complaint.replace("(", r"\(")) as caught:
        read_rabbitmq_conf("\n" + line, ENVIRONMENT)
    assert caught.value.line == 2

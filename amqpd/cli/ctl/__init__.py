"""The command `amqpctl`: a running broker, administered over its HTTP API.

    command_line > verbs > users, vhosts, queues, ... > verb > api, table > errors

A verb is a row of a table: name, arguments, options, a sentence, and the function that
does it. Parsing, help and shell completion are made from that table, so that nothing
is said twice. Verbs, columns, texts and exit codes are those of `rabbitmqctl`.

It speaks HTTP and knows nothing else of the broker, so it also drives a RabbitMQ with
its management plugin.
"""

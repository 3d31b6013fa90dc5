# amqpd, compiled, as a user that may write to nothing but its volume.
#
#   docker build -t amqpd .
#   docker run -p 5672:5672 -v amqpd:/var/lib/amqpd amqpd
#
# The image has a compiler only while it builds.

FROM python:3.11-slim AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN python -m venv /opt/amqpd \
    && /opt/amqpd/bin/pip install --no-cache-dir '.[fast]' \
    # An image that was meant to be compiled and is not should not be built.
    && /opt/amqpd/bin/amqpd --version | grep -w compiled

FROM python:3.11-slim
# The ids are those of RabbitMQ's image, so that a volume can change hands.
RUN groupadd --system --gid 999 amqpd \
    && useradd --system --uid 999 --gid 999 --home-dir /var/lib/amqpd --no-create-home amqpd \
    && install --directory --owner=amqpd --group=amqpd --mode=750 /var/lib/amqpd
COPY --from=build /opt/amqpd /opt/amqpd
ENV PATH=/opt/amqpd/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    AMQPD_DATA_DIR=/var/lib/amqpd \
    AMQPD_HOST=0.0.0.0 \
    # From inside a container every client is remote; set RABBITMQ_DEFAULT_USER and
    # RABBITMQ_DEFAULT_PASS where the port can be reached by others.
    AMQPD_LOOPBACK_USERS=
USER amqpd
WORKDIR /var/lib/amqpd
VOLUME /var/lib/amqpd
EXPOSE 5671 5672 15672 15692
# The start of a real handshake: an open port says nothing about the process behind it.
HEALTHCHECK --interval=30s --timeout=6s --start-period=30s --retries=3 \
    CMD ["amqpd", "ping"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["amqpd"]
CMD ["serve"]

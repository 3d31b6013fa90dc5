"""The nouns of the broker: vhost, exchange, queue, consumer, message, dispatch."""

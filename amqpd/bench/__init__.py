"""`amqpd bench`: what a broker does in a second, and whether it keeps its promises.

A client of its own, for any AMQP 0-9-1 broker; it uses the wire and nothing else of
the daemon. Messages walk through it like this:

    message > producer > connection > (the broker) > connection > consumer > ledger
                 |                                                   |
                 +----------------------> histogram <----------------+

    conversation    bytes in, frames out: what producer and consumer have in common
    producer        publishes within a window, counts confirms
    consumer        takes deliveries, acknowledges them
    ledger          what arrived: lost, doubled, out of order
    histogram       latencies in fixed memory
    connection      the socket, the handshake and calls that wait for their answer
    topology        what is declared, and deleted again
    load            the loop over all of it
    figures         what is known afterwards, verdict included
    progress        what is known meanwhile, on a terminal

The first half is compiled with the core and is told the time; the other half is the
edge: sockets, a clock, a screen.
"""

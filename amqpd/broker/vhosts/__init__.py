"""Virtual hosts: names, bindings and rights, and what clients ask of them."""

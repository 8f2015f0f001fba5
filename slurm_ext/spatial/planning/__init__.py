"""The mesh that suits a network, a volume and a cluster, by memory and time of each. Pure."""

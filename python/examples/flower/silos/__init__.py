"""Private models of users in silos, with Flower."""

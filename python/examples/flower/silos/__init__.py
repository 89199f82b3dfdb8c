"""Private models of users who are in silos, by Flower."""

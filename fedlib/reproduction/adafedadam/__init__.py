"""AdaFedAdam."""

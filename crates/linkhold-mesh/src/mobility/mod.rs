//! Where nodes are: standing, walking at random, or as a file says.

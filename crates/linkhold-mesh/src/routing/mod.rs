//! How a packet finds its way: AODV and SEARCH.

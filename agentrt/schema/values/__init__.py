"""Sets of JSON values of each kind, closed under intersection and complement."""

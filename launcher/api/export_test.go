package api

// Plain is what a start is not looked at in full for.
var Plain = plain

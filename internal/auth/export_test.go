package auth

// Rules are all rules by method.
var Rules = rules

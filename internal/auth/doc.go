// Package auth says who makes a call and which calls that identity may make.
// It stands before every step of a slot's life that somebody else begins: an
// upsert, a launch that a worker asks for, a report.
//
// Three things are kept apart. A credential (a signed token, a client
// certificate, a static token) becomes an Identity in the packages below this
// one. The one table of this package (rules.go) says which roles may make which
// call; what is not in it is denied. What a caller may see of the rows is the
// registrar's to judge, by Identity.Owner.
package auth

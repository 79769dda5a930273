// Package auth holds the identity of a caller and the calls that it may make. Every call from outside
// is checked here before it reaches a slot: an upsert, a launch requested by a worker, a report.
//
// There are three separate steps. The packages below turn credentials (signed token, client
// certificate, static token) into an Identity. The table in rules.go lists the roles that may make
// each call and denies all others. The registrar filters the visible rows by Identity.Owner.
package auth

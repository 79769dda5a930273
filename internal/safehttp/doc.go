// Package safehttp makes HTTP clients for URLs that users choose, such as in a workflow's HTTP step. It
// prevents server-side request forgery: a user must not reach services that only this machine or
// network may call, such as a cloud's metadata service, a database's admin port or Carillon itself.
// URLs that the operator configures, such as EXECUTOR_URL, do not use it.
//
// There are two checks. Policy.CheckURL refuses suspicious URLs before a lookup. The dialer then checks
// the address of each connection, because every lookup of a name may return another address. A proxy
// would do the lookup itself, and a redirect would lead to an unchecked URL, so neither is used.
//
// Ports 80 and 443 of public addresses are allowed, except addresses of this machine. ALLOW_EGRESS
// allows more.
package safehttp

// Package safehttp makes the HTTP clients for addresses that users choose, as
// in a workflow's HTTP step. Without it a user could make this process ask what
// only its own machine or network may ask: a cloud's metadata service, a
// database's admin port, Carillon itself. (What the operator configures, such
// as EXECUTOR_URL, is not the user's choice and does not come through here.)
//
// The rule has two halves. Policy.CheckURL refuses what no honest address looks
// like, before anything is looked up. Policy's dialer then judges the address
// that is really connected to, at each connection: a name may lead anywhere,
// and elsewhere at every look-up. There is no proxy, which would look names up
// for us, and no redirect is followed, which would be an address of somebody
// else's choice.
//
// Allowed are the ports 80 and 443 of public addresses that are not this
// machine's own. ALLOW_EGRESS adds to that; it takes nothing away.
package safehttp

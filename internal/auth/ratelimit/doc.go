// Package ratelimit keeps one owner's calls from taking what all share. It
// stands before every step of a slot's life that an owner begins by a call.
//
// Each owner has two allowances, one for calls that read and one for calls that
// change something, and each is refilled every second up to twice that: a burst
// is not refused, a flood is. A call that asks for much (a page of ten thousand
// previewed fires, a set of a thousand schedules) counts as several. Streams
// are bounded in number instead.
//
// Only callers that act for one owner (auth.Identity.Owner) are held to these.
// Services that act for all, such as a workflow compiler or an operator, are
// trusted, and where authentication is off there are no owners to keep apart.
// The allowances are this process' own: n registrars behind a balancer give n
// times as much.
//
// Two limits are apart from owners: Refusals, of calls that are refused to any
// known caller, and Reports, of the reports of each run.
package ratelimit

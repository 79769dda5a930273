// Package ratelimit keeps one owner's calls from using up shared capacity. It runs before every step
// of a slot that an owner starts with a call.
//
// Each owner has a token bucket for reads and one for writes. A bucket holds two seconds of calls, so
// that short bursts pass. Large calls (a page of ten thousand previewed fires, a set of a thousand
// schedules) count as several. Streams are limited by number.
//
// Only callers that act for one owner (auth.Identity.Owner) are limited. Services that act for all
// owners, such as a workflow compiler or an operator, are trusted. With authentication off there are
// no owners. The limits are per process: n registrars behind a load balancer allow n times as much.
//
// Two limits do not depend on owners: Refusals limits the refused calls of each identified caller,
// and Reports limits the reports of each run.
package ratelimit

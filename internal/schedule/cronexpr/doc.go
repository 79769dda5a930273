// Package cronexpr serves step 2 of a slot's life, plan: it says which
// instants are the slots of a cron expression in a time zone.
//
// An expression is parsed once into an immutable [Expr]. Expr.In binds it to a
// zone and a daylight-saving policy; the resulting [Timeline] answers Next,
// Prev and Count without allocating. Times have one-second resolution and a
// slot is a UTC instant. docs/semantics.md tells the same story to users.
//
// # The rules
//
// R1, grammar. Five fields (minute, hour, day of month, month, day of week;
// the second is 0) or six (a leading second). A field is a list, without
// spaces, of *, a, a-b, */n, a-b/n and a/n (= a-max/n), n in 1..9999. Names
// JAN-DEC only in the month, SUN-SAT only in the day of week, in any case. Both
// 0 and 7 are Sunday; 5-7 is Friday to Sunday; * and a/n end at Saturday (6).
// Day of month also takes L (last day), nW (the weekday nearest to day n, never
// outside the month) and LW; day of week also takes dL (the last such day) and
// d#k (the k-th, 1..5). A lone ? in either day field means *. Macros: @yearly
// @annually @monthly @weekly @daily @midnight @hourly. Ranges never wrap, and
// there is no year field and no zone prefix: the zone is a field of the
// schedule.
//
// R2, days. If the text of either day field begins with *, a day must match
// both fields. Otherwise it must match one of them.
//
// R3, class. An expression is wildcard when the text of its second, minute or
// hour field begins with *; otherwise it is fixed-time. This is purely textual:
// 0 */1 * * * is wildcard, 0 0-23 * * * is not.
//
// R4, wildcard. A slot is every instant whose local reading matches. Readings
// that a gap skips do not exist; readings that a fold repeats match each time.
// So minutely and hourly schedules keep their cadence in elapsed time.
//
// R5, fixed-time. A slot is every instant whose local reading matches, except:
//   - fold: an instant whose reading an earlier instant within 26 hours has
//     already shown is no slot. The first pass counts.
//   - gap: when the clock jumps forward by at most three hours at T and one of
//     the skipped readings matches, T itself is one slot, however many readings
//     were skipped. A longer jump is a change of calendar; nothing is made up.
//
// R6, identity. The slots are a fixed, strictly increasing set that depends
// only on expression, zone, policy and zone data, never on who asks or when.
// Next(after) is the least slot later than after, whose fraction of a second
// is dropped.
//
// R7, never. Next looks 50 years ahead. An expression without a slot in that
// span is refused with [ErrNeverFires] when a schedule is created.
//
// R8, zone data. The data are embedded ([TZDataVersion]), so every replica
// computes the same slots whatever the host has installed. After an update the
// cursor of a schedule decides: slots at or before it are never issued again.
//
// The policy [Literal] applies R4 to every expression: nothing in a gap, twice
// in a fold.
//
// # How it works
//
// A reading (what a wall clock shows) is kept as seconds since 1970 as if the
// clock showed UTC, so the calendar search in calendar.go knows nothing of
// zones. timeline.go walks the periods of constant offset of the zone and maps
// readings to instants by adding or subtracting that offset. No function asks
// time.Date about a local reading: its answer inside gaps and folds differs
// from zone to zone.
package cronexpr

// Package worker plans, claims and launches slots under one leader for each shard. It plans
// slots into durable rows (tick.go), claims them when they are due (fire.go, claim.go),
// launches them through its Launcher and settles what the launcher has not (launch.go). It
// also inserts the slots of backfills (feed.go), sends cancels to the launcher (cancel.go), and ends
// runs that are past their bound (tick.go).
package worker

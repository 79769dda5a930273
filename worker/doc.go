// Package worker is steps 2 to 5 of a slot's life: under one leader it plans
// due slots into durable rows (tick.go), claims them when they are due
// (fire.go), launches them through its Launcher and settles what comes back
// (launch.go). It also puts down the slots of backfills (feed.go), carries
// cancels to the launcher (cancel.go), and ends what is past its bound (tick.go).
package worker

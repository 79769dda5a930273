// Package worker is steps 2 to 5 of a slot's life: under one leader it plans
// due slots into durable rows (tick.go), claims them when they are due
// (fire.go), launches them through its Launcher (launch.go) and settles what
// comes back (launch.go).
package worker

// Package describe says in words what a schedule's rule means: the spec
// (rule.go, cron.go), what daylight saving does to one slot (clock.go), why an
// instant is none (mismatch.go). The API, the command line and the console use it to
// show step 2 of a slot's life, plan. It decides nothing; package plan does.
package describe

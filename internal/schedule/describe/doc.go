// Package describe says in words what a schedule's rule means: the spec
// (rule.go, cron.go), what daylight saving does to one slot (clock.go), why an
// instant is none (mismatch.go). It serves whoever shows step 2 of a slot's
// life, plan, to people: the API, the command line, the console. It decides
// nothing; package plan does.
package describe

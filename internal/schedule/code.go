package schedule

import "slices"

// The ledger's tables keep statuses, triggers and overlap policies as small numbers:
// the place in Statuses, Triggers and OverlapPolicies, counted from 1. New words go
// to the end of their list, because a number in a table never changes its meaning.
// The view schedule_runs has the words.

// Code is the number of a status in the tables; 0: unknown.
func (s Status) Code() int16 { return codeOf(Statuses, s) }

// Code is the number of a trigger in the tables; 0: unknown.
func (t Trigger) Code() int16 { return codeOf(Triggers, t) }

// Code is the number of an overlap policy in the tables; 0: unknown.
func (p OverlapPolicy) Code() int16 { return codeOf(OverlapPolicies, p) }

// StatusOf is the status with a number; ok = false: there is none.
func StatusOf(code int16) (s Status, ok bool) { return wordOf(Statuses, code) }

// TriggerOf is the trigger with a number; ok = false: there is none.
func TriggerOf(code int16) (t Trigger, ok bool) { return wordOf(Triggers, code) }

// OverlapPolicyOf is the overlap policy with a number; ok = false: there is none.
func OverlapPolicyOf(code int16) (p OverlapPolicy, ok bool) { return wordOf(OverlapPolicies, code) }

func codeOf[W ~string](words []W, word W) int16 { return int16(slices.Index(words, word) + 1) }

func wordOf[W ~string](words []W, code int16) (word W, ok bool) {
	if code < 1 || int(code) > len(words) {
		return "", false
	}
	return words[code-1], true
}

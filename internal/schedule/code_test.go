package schedule

import "testing"

// A number in a table never changes its meaning, so the numbers are written out here.
func TestCodesOfWordsInTheTables(t *testing.T) {
	for i, s := range []Status{"PLANNED", "LAUNCHING", "ENQUEUED", "STARTED", "SUCCESS", "FAILED", "SKIPPED", "CANCELLED"} {
		code := int16(i + 1)
		if back, ok := StatusOf(code); s.Code() != code || back != s || !ok {
			t.Errorf("status %s: code %d, want %d; code %d is %q", s, s.Code(), code, code, back)
		}
	}
	for i, w := range []Trigger{"schedule", "catchup", "manual", "backfill", "retry"} {
		code := int16(i + 1)
		if back, ok := TriggerOf(code); w.Code() != code || back != w || !ok {
			t.Errorf("trigger %s: code %d, want %d; code %d is %q", w, w.Code(), code, code, back)
		}
	}
	for i, p := range []OverlapPolicy{"allow", "skip", "queue", "replace"} {
		code := int16(i + 1)
		if back, ok := OverlapPolicyOf(code); p.Code() != code || back != p || !ok {
			t.Errorf("overlap policy %s: code %d, want %d; code %d is %q", p, p.Code(), code, code, back)
		}
	}
	for _, code := range []int16{-1, 0, 9, 32767} {
		if s, ok := StatusOf(code); ok {
			t.Errorf("code %d is status %q, want none", code, s)
		}
	}
	if code := Status("DONE").Code(); code != 0 {
		t.Errorf("an unknown status has code %d, want 0", code)
	}
}

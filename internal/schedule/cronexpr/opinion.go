package cronexpr

import (
	"strings"

	"github.com/adhocore/gronx"
)

// secondOpinion asks gronx whether it too accepts canonical text that the
// grammar of this package has accepted. It guards against the worst mistake, to
// accept something that no other cron understands. gronx is asked only where
// its answer is about the text:
//   - LW is valid here and unknown there; in a list such as 1,LW its answer
//     even depends on today's date;
//   - a six-field expression whose last field contains four digits, such as
//     */1000 in the day of week, is read there as five fields and a year.
//
// Everywhere else each item of accepted text is valid to gronx on every date,
// so the answer is the same whenever it is asked; a test holds it to that. No
// slot is ever computed by gronx.
func secondOpinion(canonical string) bool {
	return !opinionApplies(canonical) || gronx.New().IsValid(canonical)
}

func opinionApplies(canonical string) bool {
	return !strings.Contains(canonical, "LW") && !hasYearTrap(canonical)
}

func hasYearTrap(canonical string) bool {
	if strings.Count(canonical, " ") != 5 {
		return false
	}
	digits := 0
	for _, c := range []byte(canonical[strings.LastIndexByte(canonical, ' ')+1:]) {
		if digits++; !isDigit(c) {
			digits = 0
		}
		if digits == 4 {
			return true
		}
	}
	return false
}

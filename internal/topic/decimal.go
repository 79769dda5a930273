package topic

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
)

// decimal is a JSON number of any size: 0.digits × 10^exponent. Floating point would take large ids
// for equal that differ in their last digit.
type decimal struct {
	sign     int    // -1, 0 or 1
	digits   string // without zeros at either end
	exponent int64
}

// maxExponent is beyond the exponent of any number that differs from another by its digits.
const maxExponent = 1 << 40

func decimalOf(n json.Number) decimal {
	text, negative := strings.CutPrefix(string(n), "-")
	text, power, _ := strings.Cut(strings.ToLower(text), "e")
	whole, fraction, _ := strings.Cut(text, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return decimal{}
	}
	d := decimal{sign: 1, exponent: int64(len(digits) - len(fraction)), digits: strings.TrimRight(digits, "0")}
	if negative {
		d.sign = -1
	}
	if power != "" {
		p, _ := strconv.ParseInt(power, 10, 64) // out of range: the nearest number
		d.exponent += min(max(p, -maxExponent), maxExponent)
	}
	return d
}

func (d decimal) compare(o decimal) int {
	if d.sign != o.sign || d.sign == 0 {
		return cmp.Compare(d.sign, o.sign)
	}
	// Digits without zeros at their ends compare like fractions of one.
	return d.sign * cmp.Or(cmp.Compare(d.exponent, o.exponent), strings.Compare(d.digits, o.digits))
}

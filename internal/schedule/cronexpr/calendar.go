package cronexpr

import (
	"math/bits"
	"time"
)

const secondsPerDay = 86400

// nextReading returns the least matching reading in [from, until). Readings are
// wall-clock seconds since 1970 as if the clock showed UTC, so nothing here
// depends on a zone.
func (e *Expr) nextReading(from, until int64) (int64, bool) {
	if from >= until {
		return 0, false
	}
	year, month, day := time.Unix(from, 0).UTC().Date()
	first := floorDay(from) - int64(day-1) // day number of the month's first day
	for {
		length := monthLength(year, month)
		if e.month>>month&1 != 0 {
			reading, ok := e.readingInMonth(monthSpan{first, length, day}, from)
			if ok {
				return reading, reading < until
			}
		}
		first, day = first+int64(length), 1
		if first*secondsPerDay >= until {
			return 0, false
		}
		if month++; month > time.December {
			year, month = year+1, time.January
		}
	}
}

// monthSpan is a month as the day search sees it: the number of its first day,
// its length and the day to begin with.
type monthSpan struct {
	first      int64
	length     int
	beginAtDay int
}

func (e *Expr) readingInMonth(m monthSpan, from int64) (int64, bool) {
	days := e.days.match(weekdayOf(m.first), m.length) >> m.beginAtDay << m.beginAtDay
	for days != 0 {
		day := bits.TrailingZeros32(days)
		midnight := (m.first + int64(day-1)) * secondsPerDay
		if second, ok := e.nextSecondOfDay(max(from-midnight, 0)); ok {
			return midnight + second, true
		}
		days &= days - 1 // only the day of from can be over already
	}
	return 0, false
}

// nextSecondOfDay returns the least matching second of the day at or after from.
func (e *Expr) nextSecondOfDay(from int64) (int64, bool) {
	hour, minute, second := int(from/3600), int(from/60%60), int(from%60)
	if e.hour>>hour&1 != 0 {
		if e.minute>>minute&1 != 0 {
			if later := e.second >> second; later != 0 {
				return from + int64(bits.TrailingZeros64(later)), true
			}
		}
		if later := e.minute >> (minute + 1); later != 0 {
			minute += 1 + bits.TrailingZeros64(later)
			return clock(hour, minute, bits.TrailingZeros64(e.second)), true
		}
	}
	later := e.hour >> (hour + 1)
	if later == 0 {
		return 0, false
	}
	hour += 1 + bits.TrailingZeros64(later)
	return clock(hour, bits.TrailingZeros64(e.minute), bits.TrailingZeros64(e.second)), true
}

func clock(hour, minute, second int) int64 {
	return int64(hour)*3600 + int64(minute)*60 + int64(second)
}

// dayRule is the meaning of the two day fields together.
type dayRule struct {
	dom         uint32   // bit d: day d
	nearest     uint32   // bit n: the weekday nearest to day n
	dow         uint8    // bit w: weekday w, Sunday is 0
	lastDow     uint8    // bit w: the last weekday w of the month
	nthDow      [5]uint8 // bit w of [k-1]: the k-th weekday w of the month
	last        bool     // the last day
	lastWeekday bool     // the last Monday-to-Friday
	both        bool     // rule R2: both fields must match rather than one
}

// match returns the matching days of a month as bits 1..length.
func (r *dayRule) match(firstWeekday, length int) uint32 {
	all := uint32(1)<<(length+1) - 2
	dom := r.dom
	if r.last {
		dom |= 1 << length
	}
	if r.lastWeekday {
		dom |= 1 << nearestWeekday(length, firstWeekday, length)
	}
	for rest := r.nearest & all; rest != 0; rest &= rest - 1 {
		dom |= 1 << nearestWeekday(bits.TrailingZeros32(rest), firstWeekday, length)
	}
	dow := everyWeek(r.dow, firstWeekday)
	if r.lastDow != 0 {
		dow |= everyWeek(r.lastDow, firstWeekday) & (all &^ (all >> 7))
	}
	if r.nthDow != [5]uint8{} {
		for k, weekdays := range r.nthDow {
			dow |= everyWeek(weekdays, firstWeekday) & (0x7f << (7*k + 1))
		}
	}
	if r.both {
		return dom & dow & all
	}
	return (dom | dow) & all
}

// everyWeek spreads a set of weekdays over the days 1..31 of a month.
func everyWeek(weekdays uint8, firstWeekday int) uint32 {
	week := uint64(weekdays)
	week = (week>>firstWeekday | week<<(7-firstWeekday)) & 0x7f // bit 0 is day 1
	return uint32(week * 0x10204081 << 1)                       // copies 7 bits apart
}

// nearestWeekday returns the Monday-to-Friday nearest to a day, in its month.
func nearestWeekday(day, firstWeekday, length int) int {
	switch (firstWeekday + day - 1) % 7 {
	case 6: // Saturday
		if day == 1 {
			return 3
		}
		return day - 1
	case 0: // Sunday
		if day == length {
			return day - 2
		}
		return day + 1
	}
	return day
}

// floorDay returns the number of the day that contains a reading; day 0 is
// 1970-01-01.
func floorDay(reading int64) int64 {
	day := reading / secondsPerDay
	if reading%secondsPerDay < 0 {
		day--
	}
	return day
}

// weekdayOf returns the weekday of a day number; day 0 was a Thursday.
func weekdayOf(day int64) int { return int(((day+4)%7 + 7) % 7) }

func monthLength(year int, month time.Month) int {
	switch month {
	case time.April, time.June, time.September, time.November:
		return 30
	case time.February:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

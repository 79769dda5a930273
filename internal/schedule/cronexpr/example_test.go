package cronexpr_test

import (
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule/cronexpr"
)

// In New York the clock jumps from 02:00 to 03:00 on 10 March 2024. The nightly
// run is not lost: it comes right after the gap.
func Example() {
	expr, err := cronexpr.Parse("30 2 * * *")
	if err != nil {
		fmt.Println(err)
		return
	}
	newYork, err := cronexpr.LoadLocation("America/New_York")
	if err != nil {
		fmt.Println(err)
		return
	}
	timeline := expr.In(newYork, cronexpr.Vixie)
	slot := time.Date(2024, time.March, 9, 0, 0, 0, 0, newYork)
	for range 3 {
		slot, _ = timeline.Next(slot)
		fmt.Println(slot.In(newYork).Format(time.RFC3339))
	}
	// Output:
	// 2024-03-09T02:30:00-05:00
	// 2024-03-10T03:00:00-04:00
	// 2024-03-11T02:30:00-04:00
}

func ExampleParse_refused() {
	for _, text := range []string{"0 22-2 * * *", "0 9 * * sunday", "60 * * * *"} {
		_, err := cronexpr.Parse(text)
		fmt.Println(err)
	}
	// Output:
	// cron hour "22-2": runs backwards and ranges do not wrap; write 22-23,0-2
	// cron day of week "sunday": SUNDAY is not a value; write the name as SUN
	// cron minute "60": 60 is out of range; minute takes 0-59
}

package batch_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon/carillon/internal/batch"
)

func TestItemsThatComeWhileOthersAreHandledAreHandledTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled [][]int
		q := batch.NewQueue(100, func(items []int) {
			handled = append(handled, items)
			time.Sleep(time.Second) // virtual: the others gather meanwhile
		})
		q.Add()
		q.Add(0, 1)
		synctest.Wait()
		for i := 2; i < 250; i++ {
			q.Add(i)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		var sizes, all []int
		for _, items := range handled {
			sizes, all = append(sizes, len(items)), append(all, items...)
		}
		if want := []int{2, 100, 100, 48}; !slices.Equal(sizes, want) || len(all) != 250 || !slices.IsSorted(all) {
			t.Errorf("handled %v in calls of %v, want 0 to 249 in order, in calls of %v", all, sizes, want)
		}
		q.Add(250) // after it was empty
		time.Sleep(time.Minute)
		synctest.Wait()
		if last := handled[len(handled)-1]; !slices.Equal(last, []int{250}) {
			t.Errorf("the last call handled %v, want 250", last)
		}
	})
}

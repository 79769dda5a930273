package revision

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestNamesThatAreNotKnownAreMissingOnceEach(t *testing.T) {
	var n Names
	if _, missing := n.Known([]int32{3, 1, 3}); !slices.Equal(missing, []int32{3, 1}) {
		t.Errorf("missing are %v, want 3 and 1 once each", missing)
	}
	n.Keep(map[int32]string{3: "three"})
	known, missing := n.Known([]int32{1, 3, 1})
	if want := map[int32]string{3: "three"}; !maps.Equal(known, want) || !slices.Equal(missing, []int32{1}) {
		t.Errorf("known are %v, missing %v; want %v and 1", known, missing, want)
	}
}

func TestNamesAreBoundedAndForgottenAfterAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n Names
		many := make(map[int32]string)
		for i := range int32(mostNames + 10) {
			many[i] = fmt.Sprint(i)
		}
		n.Keep(many)
		if len(n.known) != mostNames {
			t.Errorf("%d names are kept, want %d", len(n.known), mostNames)
		}
		n.Keep(map[int32]string{-1: "one"})
		time.Sleep(cacheAge)
		if known, _ := n.Known([]int32{-1}); known[-1] != "one" {
			t.Error("forgotten before its time")
		}
		time.Sleep(time.Second)
		if _, missing := n.Known([]int32{-1}); len(missing) != 1 {
			t.Error("kept beyond its time")
		}
	})
}

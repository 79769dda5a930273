package queue

import (
	"errors"
	"strings"

	"github.com/spf13/pflag"

	"github.com/carillon/carillon/internal/cli/command"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// expectFlags are the flags of what a queue promises.
func expectFlags(f *pflag.FlagSet, req *carillonv1.UpsertQueueRequest) {
	expect := func() *carillonv1.QueueExpectation {
		if req.Expect == nil {
			req.Expect = &carillonv1.QueueExpectation{}
		}
		return req.Expect
	}
	f.Func("expect-wait-within", "promise that no run waits for longer than this `DURATION` once it may start (default: no promise)", func(s string) error {
		if d, err := command.ParseDuration(s); err == nil && d == 0 {
			return errors.New("write a duration from 1s up; without the flag nothing is promised about waits")
		}
		return command.Millis(&expect().WaitWithinMs)(s)
	})
	f.Func("expect-dead-at-most", "promise that at most this `NUMBER` of its runs is dead (default: no promise)", func(s string) error { return command.Uint32(&expect().DeadAtMost)(s) })
}

// promises says of each promise whether it is kept; "": there is none.
func promises(q *carillonv1.Queue) string {
	var words []string
	for _, p := range q.GetPromises() {
		word := "kept: "
		if !p.GetKept() {
			word = "BROKEN: "
		}
		words = append(words, word+p.GetSays())
	}
	return strings.Join(words, "; ")
}

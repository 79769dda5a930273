package explain

import "github.com/carillon/carillon/internal/schedule"

// told names the target of the message about the end of the run, unless it is that of its queue.
func (t *text) told() {
	if t.Run != nil && t.Run.Webhook != "" {
		t.say("The message about its end goes to webhook target %s", schedule.Quote(t.Run.Webhook))
	}
}

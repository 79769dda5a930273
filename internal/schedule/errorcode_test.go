package schedule_test

import (
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/schedule"
)

func TestExecutorErrorCodesAreWords(t *testing.T) {
	for _, tt := range []struct {
		name string
		said string
		want string
	}{
		{name: "a word stays as it is", said: "rate_limit", want: "rate_limit"},
		{name: "so does any case, and what ids may hold", said: "E-42:Disk.Full_1", want: "E-42:Disk.Full_1"},
		{name: "nothing stays nothing", said: "", want: ""},
		{name: "white space is nothing", said: " \n\t", want: ""},
		{name: "a sentence becomes one word", said: "no space left, on /dev/sda1!", want: "no_space_left_on_dev_sda1"},
		{name: "line breaks and NUL cannot get in", said: "a\x00b\r\nc", want: "a_b_c"},
		{name: "other letters leave a gap", said: "für", want: "f_r"},
		{name: "without any letter of ours it is another one", said: "ошибка", want: "other"},
		{name: "the longest is kept whole", said: strings.Repeat("x", schedule.MaxErrorCode), want: strings.Repeat("x", schedule.MaxErrorCode)},
		{name: "a longer one is cut", said: strings.Repeat("x", schedule.MaxErrorCode+1), want: strings.Repeat("x", schedule.MaxErrorCode)},
		{name: "a gap counts too", said: strings.Repeat("x !", schedule.MaxErrorCode), want: strings.Repeat("x_", schedule.MaxErrorCode/2)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := schedule.ExecutorErrorCode(tt.said)
			if got != tt.want || schedule.ExecutorErrorCode(got) != got {
				t.Errorf("ExecutorErrorCode(%q) = %q, want %q, and again the same", tt.said, got, tt.want)
			}
		})
	}
}

func TestOurOwnErrorCodesAreWordsToo(t *testing.T) {
	seen := make(map[schedule.ErrorCode]bool)
	for _, code := range schedule.ErrorCodes {
		if schedule.ExecutorErrorCode(string(code)) != string(code) || seen[code] {
			t.Errorf("%q is no word, or stands there twice", code)
		}
		seen[code] = true
	}
}

package app

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// leastToken is the shortest allowed token, in characters.
const leastToken = 16

// tokenProblems lists tokens and signing secrets that are easy to guess. Only those that the operator
// chooses have a minimum length; other services choose theirs.
func (c *Config) tokenProblems() []error {
	var problems []error
	for _, t := range []struct {
		name  string
		value Secret
		own   bool
	}{
		{"REPORT_SECRET", c.ReportSecret, true},
		{"INTERNAL_API_TOKEN", c.InternalAPIToken, true},
		{"METRICS_TOKEN", c.MetricsToken, true},
		{"EXECUTOR_TOKEN", c.ExecutorToken, false},
		{"LAUNCHER_TOKEN", c.LauncherToken, false},
		{"CREDIT_GATE_TOKEN", c.CreditGateToken, false},
	} {
		if err := checkToken(t.value.Reveal(), t.own); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", t.name, err))
		}
	}
	for secret := range strings.SplitSeq(c.AlertWebhookSecret.Reveal(), ",") {
		if err := checkToken(strings.TrimPrefix(strings.TrimSpace(secret), "whsec_"), false); err != nil {
			problems = append(problems, fmt.Errorf("ALERT_WEBHOOK_SECRET: %w", err))
		}
	}
	return problems
}

// checkToken returns why a token is easy to guess, without the token. An empty one is an unused
// setting.
func checkToken(token string, own bool) error {
	switch {
	case token == "":
		return nil
	case own && len(token) < leastToken:
		return fmt.Errorf("has %d characters, fewer than %d; `openssl rand -hex 32` makes one", len(token), leastToken)
	case placeholder(token):
		return errors.New("is a placeholder from an example; `openssl rand -hex 32` makes a value of your own")
	case repeated(token) || own && (fewCharacters(token) || sequence(token)):
		return errors.New("is easy to guess; `openssl rand -hex 32` makes one")
	}
	return nil
}

// placeholders are phrases in examples for a value to replace, without case and punctuation.
var placeholders = []string{
	"changeme", "changethis", "replaceme", "replacethis", "replacewith", "placeholder", "yoursecret", "yourtoken", "yourkey",
	"opensslrand", "insertsecret", "inserttoken", "donotuse", "notasecret", "supersecret", "topsecret", "randomstring",
}

// fillers are words in examples. Shorter ones would match inside of other words.
var fillers = strings.NewReplacer(
	"placeholder", "", "password", "", "example", "", "internal", "", "carillon", "", "default", "", "replace", "", "metrics", "",
	"secret", "", "change", "", "report", "", "sample", "", "random", "", "string", "", "insert", "",
	"token", "", "value", "", "admin", "", "super", "", "fixme", "", "please", "", "your", "", "here", "", "test", "", "demo", "", "todo", "",
)

// placeholder reports whether a value is meant to be replaced: it contains such a phrase, consists
// mostly of such words, or is an unfilled template.
func placeholder(value string) bool {
	if strings.Contains(value, "${") || strings.Contains(value, "{{") || strings.HasPrefix(value, "<") && strings.HasSuffix(value, ">") {
		return true
	}
	plain := strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, value)
	for _, phrase := range placeholders {
		if strings.Contains(plain, phrase) {
			return true
		}
	}
	return 2*len(fillers.Replace(plain)) < len(plain)
}

// repeated reports whether a value repeats a shorter one, such as aaaa and abcabc.
func repeated(value string) bool {
	twice := value + value
	return len(value) > 1 && strings.Contains(twice[1:len(twice)-1], value)
}

// fewCharacters is true for one in 2.5 million random values of 16 hexadecimal digits, and more rarely
// for longer ones.
func fewCharacters(value string) bool {
	different := make(map[rune]bool)
	for _, r := range value {
		different[r] = true
	}
	return len(different) < 5
}

// sequence reports whether three of four characters follow the one before in order, as in
// 0123456789abcdef.
func sequence(value string) bool {
	steps := 0
	for i := 1; i < len(value); i++ {
		if step := int(value[i]) - int(value[i-1]); step >= -1 && step <= 1 {
			steps++
		}
	}
	return 4*steps >= 3*(len(value)-1)
}

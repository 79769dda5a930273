package app

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// leastToken is how many characters keep a token from being guessed.
const leastToken = 16

// tokenProblems lists the tokens and signing secrets that somebody could guess.
// Those that this deployment makes itself have a least length too; the others
// are as long as the service that gave them out likes.
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

// checkToken says why a token is easy to guess, without repeating it. An empty
// one is a setting that is not used.
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

// placeholders are what examples write for a value to be replaced, without case
// and punctuation.
var placeholders = []string{
	"changeme", "changethis", "replaceme", "replacethis", "replacewith", "placeholder", "yoursecret", "yourtoken", "yourkey",
	"opensslrand", "insertsecret", "inserttoken", "donotuse", "notasecret", "supersecret", "topsecret", "randomstring",
}

// fillers are words that examples are made of. Shorter ones would hit the
// middle of others.
var fillers = strings.NewReplacer(
	"placeholder", "", "password", "", "example", "", "internal", "", "carillon", "", "default", "", "replace", "", "metrics", "",
	"secret", "", "change", "", "report", "", "sample", "", "random", "", "string", "", "insert", "",
	"token", "", "value", "", "admin", "", "super", "", "fixme", "", "please", "", "your", "", "here", "", "test", "", "demo", "", "todo", "",
)

// placeholder reports whether a value was written for people to replace: it
// holds a phrase of that kind, is mostly made of such words, or is a template
// that nobody filled in.
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

// repeated reports whether a value is a shorter one several times over, such as
// aaaa and abcabc.
func repeated(value string) bool {
	twice := value + value
	return len(value) > 1 && strings.Contains(twice[1:len(twice)-1], value)
}

// fewCharacters is true for one of 2.5 million random values of 16 hexadecimal
// digits, and for fewer of longer ones.
func fewCharacters(value string) bool {
	different := make(map[rune]bool)
	for _, r := range value {
		different[r] = true
	}
	return len(different) < 5
}

// sequence reports whether three of four characters are the neighbours of the
// one before, as in 0123456789abcdef.
func sequence(value string) bool {
	steps := 0
	for i := 1; i < len(value); i++ {
		if step := int(value[i]) - int(value[i-1]); step >= -1 && step <= 1 {
			steps++
		}
	}
	return 4*steps >= 3*(len(value)-1)
}

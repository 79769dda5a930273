package notify

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// source is a value of the configuration: plain text, or where a secret is kept.
// It is read at each attempt, so that a secret can be replaced at any time.
type source struct {
	text string
	env  string
	file string
}

func literal(text string) source { return source{text: text} }

func (s source) set() bool { return s != source{} }

// secret reports whether the value is kept elsewhere.
func (s source) secret() bool { return s.env != "" || s.file != "" }

const maxSecret = 16 << 10 // bytes of a file that holds a secret

// read is the value, without white space around it. Errors name where it is
// kept, and never the value.
func (s source) read() (string, error) {
	switch {
	case s.env != "":
		if value := strings.TrimSpace(os.Getenv(s.env)); value != "" {
			return value, nil
		}
		return "", fmt.Errorf("the environment variable %s is not set", s.env)
	case s.file != "":
		f, err := os.Open(s.file)
		if err != nil {
			return "", err
		}
		defer f.Close()
		value, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
		switch text := strings.TrimSpace(string(value)); {
		case err != nil:
			return "", err
		case len(value) > maxSecret:
			return "", fmt.Errorf("%s has more than %d bytes", s.file, maxSecret)
		case text == "":
			return "", fmt.Errorf("%s is empty", s.file)
		default:
			return text, nil
		}
	}
	return s.text, nil
}

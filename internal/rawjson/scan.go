package rawjson

import (
	"encoding/json"
	"strings"
)

// scanner walks over valid JSON text. It skips values without decoding them.
type scanner struct {
	text []byte
	at   int
}

func (s *scanner) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// peek returns the first byte of the next value.
func (s *scanner) peek() byte {
	s.space()
	return s.text[s.at]
}

// token reads a string, including its quotes.
func (s *scanner) token() []byte {
	start := s.at
	for s.at++; s.text[s.at] != '"'; s.at++ {
		if s.text[s.at] == '\\' {
			s.at++
		}
	}
	s.at++
	return s.text[start:s.at]
}

// value reads the whole next value without surrounding space.
func (s *scanner) value() []byte {
	s.space()
	start := s.at
	depth := 0
	for {
		switch s.text[s.at] {
		case '"':
			s.token()
		case '{', '[':
			depth++
			s.at++
		case '}', ']':
			depth--
			s.at++
		default:
			s.literal()
		}
		if depth == 0 {
			return s.text[start:s.at]
		}
		s.separator()
	}
}

// literal reads a number, true, false or null.
func (s *scanner) literal() {
	for s.at < len(s.text) && !strings.ContainsRune(" \t\r\n,:]}", rune(s.text[s.at])) {
		s.at++
	}
}

// separator skips space, commas and colons.
func (s *scanner) separator() {
	for s.space(); s.text[s.at] == ',' || s.text[s.at] == ':'; s.space() {
		s.at++
	}
}

// members reads an object. It calls member with each name and its token; member must read the value.
func (s *scanner) members(member func(name string, token []byte)) {
	s.space()
	s.at++ // {
	for s.space(); s.text[s.at] != '}'; s.space() {
		if s.text[s.at] == ',' {
			s.at++
			s.space()
		}
		token := s.token()
		s.space()
		s.at++ // :
		member(unquote(token), token)
	}
	s.at++
}

// elements reads an array. It calls element for each index; element must read the value.
func (s *scanner) elements(element func(i int)) {
	s.space()
	s.at++ // [
	i := 0
	for s.space(); s.text[s.at] != ']'; s.space() {
		if s.text[s.at] == ',' {
			s.at++
		}
		element(i)
		i++
	}
	s.at++
}

// unquote decodes a valid token.
func unquote(token []byte) string {
	inner := token[1 : len(token)-1]
	if !strings.ContainsRune(string(inner), '\\') {
		return string(inner)
	}
	var s string
	if err := json.Unmarshal(token, &s); err != nil {
		return string(inner) // unreachable: the token is valid
	}
	return s
}

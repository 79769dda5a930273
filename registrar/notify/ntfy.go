package notify

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/carillon/carillon/registrar/alert/expect"
)

// ntfy is a topic of an ntfy server. Messages are published as JSON, since headers cannot hold all
// characters.
type ntfy struct {
	url   source // of the topic
	token source // empty: none
}

type ntfyMessage struct {
	Topic    string   `json:"topic"`
	Title    string   `json:"title"`
	Message  string   `json:"message"`
	Priority int      `json:"priority"`
	Tags     []string `json:"tags"`
	Click    string   `json:"click,omitempty"`
}

// Send publishes to the topic.
func (n *ntfy) Send(ctx context.Context, o Outgoing) Result {
	m, bad := o.message()
	if bad != nil {
		return *bad
	}
	address, err := n.url.read()
	if err != nil {
		return Result{Problem: "url: " + err.Error()}
	}
	token, err := n.token.read()
	if err != nil {
		return Result{Problem: "token: " + err.Error()}
	}
	server, topic, err := ntfyTopic(address)
	if err != nil {
		return Result{Problem: "url: " + err.Error()}
	}
	c := call{url: server, hide: []string{topic, token}}
	if token != "" {
		c.header = map[string]string{"Authorization": "Bearer " + token}
	}
	return postJSON(ctx, o.Client, c, ntfyBody(m, topic))
}

var errNoTopic = errors.New("is not the URL of a topic, such as https://ntfy.sh/our-alerts")

// ntfyTopic takes a topic off its server's address: JSON is published to the
// root.
func ntfyTopic(address string) (server, topic string, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", "", errNoTopic
	}
	at := strings.LastIndexByte(u.Path, '/')
	if at < 0 || u.Path[at+1:] == "" || u.RawQuery != "" {
		return "", "", errNoTopic
	}
	topic, u.Path, u.RawPath = u.Path[at+1:], u.Path[:at+1], ""
	return u.String(), topic, nil
}

var ntfyPriorities = map[Severity]int{SeverityCritical: 5, SeverityError: 4, SeverityWarning: 3, SeverityInfo: 2}

// ntfyBody renders the message for a topic. It is plain text: ntfy reads Markdown
// only where it is asked to.
func ntfyBody(m *Message, topic string) ntfyMessage {
	out := ntfyMessage{Topic: topic, Title: m.title(), Priority: ntfyPriorities[m.Data.Severity], Tags: []string{"rotating_light"}, Click: m.Data.URL}
	switch m.Type {
	case expect.NoticeRecovered:
		out.Tags, out.Priority = []string{"white_check_mark"}, 3
	case expect.NoticeTest:
		out.Tags, out.Priority = []string{"bell"}, 3
	}
	if out.Priority == 0 {
		out.Priority = ntfyPriorities[SeverityError]
	}
	lines := []string{m.sentence(), ""}
	for _, f := range m.facts() {
		lines = append(lines, f.name+": "+f.value)
	}
	if output := m.output(); output != nil {
		lines = append(append(lines, ""), output...)
	}
	out.Message = clipBytes(strings.Join(lines, "\n"), maxNtfy)
	return out
}

// maxNtfy is less than the 4,096 bytes above which ntfy makes a message an
// attachment that a lock screen does not show.
const maxNtfy = 4000

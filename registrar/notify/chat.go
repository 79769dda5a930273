package notify

import (
	"context"
	"net/url"
	"strings"

	"github.com/carillon/carillon/registrar/alert/expect"
)

// hook is a target with a secret URL and the format of render.
type hook struct {
	url    source
	render func(*Message) any
}

// Send posts the rendered message.
func (h *hook) Send(ctx context.Context, o Outgoing) Result {
	m, bad := o.message()
	if bad != nil {
		return *bad
	}
	address, err := h.url.read()
	if err != nil {
		return Result{Problem: "url: " + err.Error()}
	}
	u, err := url.Parse(address)
	if err != nil {
		return Result{Problem: "url: is not a URL"} // the error would repeat it
	}
	return postJSON(ctx, o.Client, call{url: address, hide: secretsOf(u)}, h.render(m))
}

// The colours of the bar at the side of a message.
const (
	colorBad  = "#d63232"
	colorGood = "#2a9d4b"
	colorTest = "#3b6fd6"
)

func (m *Message) color() string {
	switch m.Type {
	case expect.NoticeRecovered:
		return colorGood
	case expect.NoticeTest:
		return colorTest
	}
	return colorBad
}

type slackMessage struct {
	Text        string            `json:"text"`
	Attachments []slackAttachment `json:"attachments"`
}

// slackAttachment is older than Slack's blocks, and the one form that Mattermost,
// Rocket.Chat and Discord (/slack) show too.
type slackAttachment struct {
	Fallback  string       `json:"fallback"`
	Color     string       `json:"color"`
	Title     string       `json:"title"`
	TitleLink string       `json:"title_link,omitempty"`
	Text      string       `json:"text"`
	Fields    []slackField `json:"fields,omitempty"`
	MrkdwnIn  []string     `json:"mrkdwn_in,omitempty"`
}

type slackField struct {
	Title string `json:"title"`
	Value string `json:"value"`
	Short bool   `json:"short"`
}

// slackEscaper escapes as Slack requires: without these three, text holds no link and no mention.
var slackEscaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func slackText(text string) string { return slackEscaper.Replace(noMention(text)) }

// slackBody renders for a Slack-compatible webhook.
func slackBody(m *Message) any {
	title, text := slackText(m.title()), slackText(m.sentence())
	a := slackAttachment{Fallback: text, Color: m.color(), Title: title, TitleLink: m.Data.URL, Text: text}
	for _, f := range m.facts() {
		a.Fields = append(a.Fields, slackField{Title: f.name, Value: slackText(f.value), Short: true})
	}
	if lines := m.output(); lines != nil {
		// Three back quotes would end the block of code.
		code := strings.ReplaceAll(slackText(strings.Join(lines, "\n")), "```", "'''")
		a.Text += "\n```\n" + code + "\n```"
		a.MrkdwnIn = []string{"text"}
	}
	return slackMessage{Text: title, Attachments: []slackAttachment{a}}
}

type teamsMessage struct {
	Type        string            `json:"type"`
	Attachments []teamsAttachment `json:"attachments"`
}

type teamsAttachment struct {
	ContentType string    `json:"contentType"`
	ContentURL  *string   `json:"contentUrl"` // null, as Microsoft's examples have it
	Content     teamsCard `json:"content"`
}

type teamsCard struct {
	Schema  string        `json:"$schema"`
	Type    string        `json:"type"`
	Version string        `json:"version"`
	Body    []teamsBlock  `json:"body"`
	Actions []teamsAction `json:"actions,omitempty"`
	MSTeams teamsWidth    `json:"msteams"`
}

type teamsWidth struct {
	Width string `json:"width"`
}

// teamsBlock is a RichTextBlock: unlike a TextBlock it does not read Markdown, so
// nothing in ids or output becomes a link.
type teamsBlock struct {
	Type    string     `json:"type"`
	Spacing string     `json:"spacing,omitempty"`
	Inlines []teamsRun `json:"inlines"`
}

type teamsRun struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Weight   string `json:"weight,omitempty"`
	Size     string `json:"size,omitempty"`
	Color    string `json:"color,omitempty"`
	FontType string `json:"fontType,omitempty"`
}

type teamsAction struct {
	Type  string `json:"type"`
	Title string `json:"title"`
	URL   string `json:"url"`
}

func teamsLine(spacing string, runs ...teamsRun) teamsBlock {
	for i := range runs {
		runs[i].Type = "TextRun"
	}
	return teamsBlock{Type: "RichTextBlock", Spacing: spacing, Inlines: runs}
}

// teamsBody renders an Adaptive Card for a Workflows webhook of Microsoft Teams.
func teamsBody(m *Message) any {
	color := map[string]string{colorBad: "Attention", colorGood: "Good", colorTest: "Accent"}[m.color()]
	body := []teamsBlock{
		teamsLine("", teamsRun{Text: m.title(), Weight: "Bolder", Size: "Large", Color: color}),
		teamsLine("", teamsRun{Text: m.sentence()}),
	}
	for _, f := range m.facts() {
		body = append(body, teamsLine("None", teamsRun{Text: f.name + ": ", Weight: "Bolder"}, teamsRun{Text: f.value}))
	}
	for i, line := range m.output() {
		spacing := "None"
		if i == 0 {
			spacing = "Medium"
		}
		if line == "" {
			line = " " // an empty run is not shown, and the lines would move together
		}
		body = append(body, teamsLine(spacing, teamsRun{Text: line, FontType: "Monospace"}))
	}
	card := teamsCard{
		Schema: "http://adaptivecards.io/schemas/adaptive-card.json", Type: "AdaptiveCard", Version: "1.4", Body: body,
		MSTeams: teamsWidth{Width: "Full"},
	}
	if m.Data.URL != "" {
		card.Actions = []teamsAction{{Type: "Action.OpenUrl", Title: "Open in Carillon", URL: m.Data.URL}}
	}
	return teamsMessage{Type: "message", Attachments: []teamsAttachment{
		{ContentType: "application/vnd.microsoft.card.adaptive", Content: card},
	}}
}

package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/rawjson"
)

// OutputFlag adds --output.
func (c *Client) OutputFlag(cmd *cobra.Command) {
	cmd.PersistentFlags().VarP(&c.Format, "output", "o", "table, wide (more columns), json or yaml")
	command.CompleteValues(cmd, "output", render.Formats)
}

// Show prints m as REST writes it, or for people the page that people fills.
func (c *Client) Show(m proto.Message, people func(p *render.Page)) error {
	if c.Format.ForPeople() {
		p := c.Page()
		people(p)
		return p.Print(c.Out)
	}
	text, err := rawjson.Marshal(m)
	if err != nil {
		return err
	}
	return c.Document(text)
}

// ShowAnswer makes one call and shows its answer.
func ShowAnswer[Req any, Resp proto.Message](ctx context.Context, c *Client, l *Link, method func(context.Context, Req, ...grpc.CallOption) (Resp, error), req Req, people func(p *render.Page, resp Resp)) error {
	resp, err := Call(ctx, l, method, req)
	if err != nil {
		return err
	}
	return c.Show(resp, func(p *render.Page) { people(p, resp) })
}

// Document prints one JSON text in the requested format.
func (c *Client) Document(text []byte) error {
	var out bytes.Buffer
	if c.Format == render.FormatYAML {
		converted, err := render.YAMLFromJSON(text)
		if err != nil {
			return fmt.Errorf("write YAML: %w", err)
		}
		out.Write(converted)
	} else {
		if err := json.Indent(&out, text, "", "  "); err != nil {
			return fmt.Errorf("write JSON: %w", err)
		}
		out.WriteByte('\n')
	}
	_, err := c.Out.Write(out.Bytes())
	return err
}

// Page is an empty page in the requested format.
func (c *Client) Page() *render.Page {
	return &render.Page{Now: c.Now(), Color: c.Color, Wide: c.Format == render.FormatWide}
}

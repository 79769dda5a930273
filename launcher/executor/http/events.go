package httpexecutor

import "github.com/carillon/carillon/internal/topic"

// handlerBody says that the run is one of a consumer.
type handlerBody struct {
	Mode    string `json:"mode"`
	Cause   string `json:"cause"`
	RootKey string `json:"root_key"` // the first attempt with these events
}

func handlerOf(b *topic.Batch) *handlerBody {
	if b == nil {
		return nil
	}
	return &handlerBody{Mode: "batch", Cause: "event", RootKey: b.Root.String()}
}

func digestOf(b *topic.Batch) string {
	if b == nil {
		return ""
	}
	return b.Digest.String()
}

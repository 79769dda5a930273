package callstream

import "context"

// Received is a message of a stream, or why there is none.
type Received[Q any] struct {
	Msg *Q
	Err error
}

// Receive reads the messages of a stream that this process serves, in a goroutine of its own, because
// Recv does not end with a context that is cancelled here. The last message has an error. The goroutine
// ends after ctx and the stream have.
func Receive[Q any](ctx context.Context, recv func() (*Q, error)) <-chan Received[Q] {
	messages := make(chan Received[Q])
	go func() {
		for {
			msg, err := recv()
			select {
			case messages <- Received[Q]{msg, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return messages
}

package kafka

import (
	"context"
	"fmt"

	"github.com/segmentio/kafka-go/sasl"
)

// Login is a SASL mechanism whose client proves in one message who it is, such as OAUTHBEARER and AWS_MSK_IAM.
type Login struct {
	Mechanism string
	// Message returns the message for a broker of that name, anew for each connection and each renewal of its session.
	Message func(ctx context.Context, host string) ([]byte, error)
	// Settings are what to check where a broker refuses it.
	Settings string
}

// oauthBearer is the one mechanism here whose broker explains a refusal before it refuses.
const oauthBearer = "OAUTHBEARER"

// Name returns the mechanism's name.
func (l *Login) Name() string { return l.Mechanism }

// Start returns the client's message.
func (l *Login) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	b, err := l.Message(ctx, sasl.MetadataFromContext(ctx).Host)
	return &loginState{mechanism: l.Mechanism}, b, err
}

// loginState is a login whose message was sent.
type loginState struct {
	mechanism string
	refusal   string
}

// Next reads the broker's answer. One of OAUTHBEARER that is not empty says why the broker refuses the token; it fails the exchange
// once that was acknowledged (RFC 7628, section 3.2.3).
func (s *loginState) Next(_ context.Context, answer []byte) (done bool, response []byte, err error) {
	if s.refusal != "" {
		return false, nil, fmt.Errorf("the broker says %s", s.refusal)
	}
	if s.mechanism != oauthBearer || len(answer) == 0 {
		return true, nil, nil
	}
	s.refusal = string(answer)
	return false, []byte{1}, nil
}

// FollowPassword returns NewSASL's mechanism for the password that password returns at each login, so that one
// that has changed needs no restart.
func FollowPassword(mechanism, user string, password func() string) (sasl.Mechanism, error) {
	m, err := NewSASL(mechanism, user, password())
	if m == nil || err != nil {
		return nil, err
	}
	return following{m.Name(), user, password}, nil
}

// following is a mechanism with a password that may change.
type following struct {
	mechanism, user string
	password        func() string
}

func (f following) Name() string { return f.mechanism }

func (f following) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	m, err := NewSASL(f.mechanism, f.user, f.password())
	if err != nil {
		return nil, nil, err
	}
	return m.Start(ctx)
}

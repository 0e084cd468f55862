package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"odradek/schemas"
)

// Register registers an Avro schema under a subject and returns its id, which is
// the old one if the subject has that schema already. In an outage it returns the id from the
// disk cache, of an earlier process for the same subject and schema. It returns
// ErrIncompatible if the subject's compatibility rule forbids the schema.
func (c *Client) Register(ctx context.Context, subject, schemaJSON string) (int32, error) {
	return c.RegisterAs(ctx, subject, "AVRO", schemaJSON)
}

// RegisterAs registers a schema of a type, as schemas.Format names it, like Register.
func (c *Client) RegisterAs(ctx context.Context, subject, schemaType, text string) (int32, error) {
	if err := c.lacksIDs(); err != nil {
		return 0, err
	}
	return c.cache.remembered(subject, text, func() (int32, error) {
		var a struct{ ID int32 }
		err := c.transport.call(ctx, fmt.Sprintf("registering subject %q", subject), http.MethodPost,
			"/subjects/"+url.PathEscape(subject)+"/versions", schemaBody(schemaType, text), &a)
		return a.ID, err
	})
}

// Lookup returns the id of a schema that is registered under a subject, and ErrUnknownSchema if it
// is not. It serves registries that forbid registration to workers.
func (c *Client) Lookup(ctx context.Context, subject, schemaJSON string) (int32, error) {
	if err := c.lacksIDs(); err != nil {
		return 0, err
	}
	return c.cache.remembered(subject, schemaJSON, func() (int32, error) {
		var a answer
		err := c.transport.call(ctx, fmt.Sprintf("looking up subject %q", subject), http.MethodPost,
			"/subjects/"+url.PathEscape(subject), schemaBody("AVRO", schemaJSON), &a)
		return a.ID, err
	})
}

// schemaBody leaves out the type of an Avro schema, which is the default.
func schemaBody(schemaType, text string) any {
	if schemaType == "AVRO" {
		schemaType = ""
	}
	return struct {
		Schema string `json:"schema"`
		Type   string `json:"schemaType,omitempty"`
	}{text, schemaType}
}

// Latest returns the newest version of a subject. It is not cached.
func (c *Client) Latest(ctx context.Context, subject string) (*schemas.Schema, error) {
	if err := c.lacksIDs(); err != nil {
		return nil, err
	}
	return c.transport.version(ctx, subject, "latest")
}

// Versions returns the versions of a subject, ascending.
func (c *Client) Versions(ctx context.Context, subject string) ([]int, error) {
	if err := c.lacksIDs(); err != nil {
		return nil, err
	}
	var versions []int
	err := c.transport.call(ctx, fmt.Sprintf("versions of subject %q", subject), http.MethodGet,
		"/subjects/"+url.PathEscape(subject)+"/versions", nil, &versions)
	return versions, err
}

// Compatible reports whether a schema could be registered under a subject, without
// registering it, and if not, why. A subject that does not exist takes any.
func (c *Client) Compatible(ctx context.Context, subject, schemaJSON string) (ok bool, reasons []string, err error) {
	if err := c.lacksIDs(); err != nil {
		return false, nil, err
	}
	var a struct {
		OK       bool     `json:"is_compatible"`
		Messages []string `json:"messages"`
	}
	err = c.transport.call(ctx, fmt.Sprintf("compatibility with subject %q", subject), http.MethodPost,
		"/compatibility/subjects/"+url.PathEscape(subject)+"/versions/latest?verbose=true", schemaBody("AVRO", schemaJSON), &a)
	if errors.Is(err, ErrUnknownSchema) {
		return true, nil, nil
	}
	return a.OK, a.Messages, err
}

// Ping makes sure that the registry can be reached with these credentials.
func (c *Client) Ping(ctx context.Context) error {
	if c == nil {
		return errNoRegistry
	}
	if c.Glue() {
		return c.transport.pingGlue(ctx)
	}
	var subjects []string
	return c.transport.call(ctx, "subjects", http.MethodGet, "/subjects", nil, &subjects)
}

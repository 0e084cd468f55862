package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"odradek/schemas"
)

// Sign signs a request to AWS with the body that is sent.
type Sign func(ctx context.Context, req *http.Request, body []byte) error

// errGlue is the error of calls that AWS Glue does not have: its schemas have no ids that a record could name.
var errGlue = fmt.Errorf("%w: AWS Glue has no ids of schemas", ErrUnknownSchema)

// Glue reports whether the registry is AWS Glue's, which gives no ids.
func (c *Client) Glue() bool { return c != nil && c.transport.config.Sign != nil }

// HasIDs reports whether schemas of outputs can be registered, for ids in Confluent framing.
func (c *Client) HasIDs() bool { return c != nil && c.transport.config.Sign == nil }

// lacksIDs returns why subjects and ids cannot be asked for; nil where they can.
func (c *Client) lacksIDs() error {
	switch {
	case c == nil:
		return errNoRegistry
	case c.Glue():
		return errGlue
	}
	return nil
}

// glueVersion fetches a version of a schema from AWS Glue.
func (t *transport) glueVersion(ctx context.Context, uuid string) (*schemas.Schema, error) {
	var a struct {
		SchemaVersionID  string `json:"SchemaVersionId"`
		SchemaDefinition string
		DataFormat       string
		VersionNumber    int
	}
	op := "schema version " + uuid
	if err := t.call(ctx, op, http.MethodPost, "/", map[string]string{"SchemaVersionId": uuid}, &a); err != nil {
		return nil, err
	}
	if a.SchemaDefinition == "" {
		return nil, &Error{Op: op, URL: redact(t.urls[0].String()), Status: http.StatusOK, Glue: true, Err: errors.New(
			"the answer has no schema in it")}
	}
	return &schemas.Schema{ID: -1, GUID: uuid, Version: a.VersionNumber, Type: a.DataFormat, Text: a.SchemaDefinition}, nil
}

// noUUID names no schema version.
const noUUID = "00000000-0000-0000-0000-000000000000"

// pingGlue needs no other permission than the records do.
func (t *transport) pingGlue(ctx context.Context) error {
	_, err := t.glueVersion(ctx, noUUID)
	if errors.Is(err, ErrUnknownSchema) {
		return nil
	}
	return err
}

// signed makes req one of AWS Glue's API.
func (t *transport) signed(ctx context.Context, req *http.Request, body []byte) error {
	req.Header.Set("Content-Type", "application/x-amz-json-1.1")
	req.Header.Set("X-Amz-Target", "AWSGlue.GetSchemaVersion")
	return t.config.Sign(ctx, req, body)
}

// glueError reads an answer of AWS Glue that is no success. Its status is 400 for almost all of them.
func glueError(e *Error, body []byte) {
	var said struct {
		Type    string `json:"__type"`
		Message string
	}
	e.Glue = true
	if json.Unmarshal(body, &said) != nil || said.Type == "" {
		return
	}
	kind := said.Type[strings.LastIndexByte(said.Type, '#')+1:]
	e.Err = fmt.Errorf("%s: %s", kind, said.Message)
	switch kind {
	case "EntityNotFoundException":
		e.Status, e.Err = http.StatusNotFound, fmt.Errorf("%w: %s", ErrUnknownSchema, said.Message)
	case "AccessDeniedException":
		e.Status = http.StatusForbidden
	case "UnrecognizedClientException", "InvalidSignatureException", "IncompleteSignature", "MissingAuthenticationToken",
		"MissingAuthenticationTokenException", "ExpiredTokenException", "InvalidClientTokenId", "SignatureDoesNotMatch":
		e.Status = http.StatusUnauthorized
	case "ThrottlingException", "Throttling", "RequestLimitExceeded", "TooManyRequestsException":
		e.Status = http.StatusTooManyRequests
	}
}

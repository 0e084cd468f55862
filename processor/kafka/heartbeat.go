package kafka

import "github.com/segmentio/kafka-go/protocol"

// kafka-go v0.4.51 declares the responses of Heartbeat and LeaveGroup with
// error_code before throttle_time_ms. On the wire the order is the reverse from
// version 1 on, so that kafka-go reads every error as a throttle time and a member
// never learns of a rebalance (segmentio/kafka-go#1371). Registering types with the
// right order replaces both, in the whole program.
func init() {
	protocol.Register(&heartbeatRequest{}, &heartbeatResponse{})
	protocol.Register(&leaveGroupRequest{}, &leaveGroupResponse{})
}

type heartbeatRequest struct {
	_ struct{} `kafka:"min=v4,max=v4,tag"`

	GroupID         string `kafka:"min=v0,max=v4"`
	GenerationID    int32  `kafka:"min=v0,max=v4"`
	MemberID        string `kafka:"min=v0,max=v4"`
	GroupInstanceID string `kafka:"min=v3,max=v4,nullable"`
}

func (*heartbeatRequest) ApiKey() protocol.ApiKey { return protocol.Heartbeat }

type heartbeatResponse struct {
	_ struct{} `kafka:"min=v4,max=v4,tag"`

	ThrottleTimeMs int32 `kafka:"min=v1,max=v4"`
	ErrorCode      int16 `kafka:"min=v0,max=v4"`
}

func (*heartbeatResponse) ApiKey() protocol.ApiKey { return protocol.Heartbeat }

type leaveGroupRequest struct {
	_ struct{} `kafka:"min=v4,max=v4,tag"`

	GroupID  string             `kafka:"min=v0,max=v4"`
	MemberID string             `kafka:"min=v0,max=v2"`
	Members  []leaveGroupMember `kafka:"min=v3,max=v4"`
}

type leaveGroupMember struct {
	_ struct{} `kafka:"min=v4,max=v4,tag"`

	MemberID        string `kafka:"min=v3,max=v4"`
	GroupInstanceID string `kafka:"min=v3,max=v4,nullable"`
}

func (*leaveGroupRequest) ApiKey() protocol.ApiKey { return protocol.LeaveGroup }

type leaveGroupResponse struct {
	_ struct{} `kafka:"min=v4,max=v4,tag"`

	ThrottleTimeMs int32              `kafka:"min=v1,max=v4"`
	ErrorCode      int16              `kafka:"min=v0,max=v4"`
	Members        []leaveGroupResult `kafka:"min=v3,max=v4"`
}

type leaveGroupResult struct {
	_ struct{} `kafka:"min=v4,max=v4,tag"`

	MemberID        string `kafka:"min=v3,max=v4"`
	GroupInstanceID string `kafka:"min=v3,max=v4,nullable"`
	ErrorCode       int16  `kafka:"min=v3,max=v4"`
}

func (*leaveGroupResponse) ApiKey() protocol.ApiKey { return protocol.LeaveGroup }

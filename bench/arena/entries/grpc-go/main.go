// Command arena is the arena's gRPC service with grpc-go. Environment variables tell it where to listen;
// bench/arena/doors.py has them.
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// numbers is a message of protobuf whose fields 1, 2 and 3 are these numbers.
type numbers [3]int32

// codec reads and writes numbers, so that no code must be generated.
type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(value any) ([]byte, error) {
	var out []byte
	for index, number := range *value.(*numbers) {
		if number != 0 {
			out = append(out, byte(index+1)<<3)
			out = binary.AppendUvarint(out, uint64(int64(number)))
		}
	}
	return out, nil
}

func (codec) Unmarshal(data []byte, value any) error {
	found := value.(*numbers)
	*found = numbers{}
	for len(data) > 0 {
		index := int(data[0]>>3) - 1
		number, size := binary.Uvarint(data[1:])
		if size <= 0 || index < 0 || index >= len(found) || data[0]&7 != 0 {
			return fmt.Errorf("this is no message of numbers: %x", data)
		}
		found[index] = int32(number)
		data = data[1+size:]
	}
	return nil
}

func getSum(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	var request numbers
	if err := decode(&request); err != nil {
		return nil, err
	}
	return &numbers{request[0] + request[1]}, nil
}

func streamSum(_ any, stream grpc.ServerStream) error {
	var request numbers
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	sum := request[0] + request[1]
	for index := range max(1, request[2]) {
		if err := stream.SendMsg(&numbers{sum + index}); err != nil {
			return err
		}
	}
	return nil
}

var service = grpc.ServiceDesc{
	ServiceName: "benchmark.BenchmarkService",
	HandlerType: (*any)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "GetSum", Handler: getSum}},
	Streams:     []grpc.StreamDesc{{StreamName: "StreamSum", Handler: streamSum, ServerStreams: true}},
}

func variable(name, otherwise string) string {
	if value, ok := os.LookupEnv(name); ok {
		return value
	}
	return otherwise
}

func serve(port string, options ...grpc.ServerOption) {
	listener, err := net.Listen("tcp", variable("ARENA_HOST", "0.0.0.0")+":"+port)
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(append(options, grpc.ForceServerCodec(codec{}))...)
	server.RegisterService(&service, struct{}{})
	log.Fatal(server.Serve(listener))
}

func main() {
	security, err := credentials.NewServerTLSFromFile(
		variable("ARENA_CERTIFICATE", "/certs/server.crt"), variable("ARENA_KEY", "/certs/server.key"))
	if err != nil {
		log.Fatal(err)
	}
	go serve(variable("ARENA_H2_PORT", "8443"), grpc.Creds(security))
	serve(variable("ARENA_HTTP_PORT", "8080"))
}

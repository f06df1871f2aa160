def send_intermediate_predict_response(ret, req_id_map=None, message="", code=200, context=None):
    context.cl_socket.send_part(ret)

golden_call:
    lea rax,[rdi+0x1]
    ret
golden_fire:
    lea rax,[rdi+0x2]
    ret
golden_traced:
    mov QWORD PTR [rsp-0x8],rdi
    lea rax,[rsp-0x8]
    mov rax,QWORD PTR [rsp-0x8]
    add rax,0x4
    ret
